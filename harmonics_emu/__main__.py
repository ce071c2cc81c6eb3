"""`python -m harmonics_emu` is the same as the `harmonics-emu` command."""

from harmonics_emu.cli.main import main

if __name__ == "__main__":
    main(prog_name="harmonics-emu")
