"""What ranks run: one short torch program a file, each of which also runs under plain torchrun."""
