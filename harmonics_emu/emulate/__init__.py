"""The emulator: real ranks over Open vSwitch and shaped links, in one private sandbox a run."""
