"""The subcommands of `stranded`, one module each; `state_machines.cli` loads them when they are asked for."""
