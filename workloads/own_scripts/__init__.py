"""What makes gates and iterations of a script that does not know of us. See `script_watch`."""
