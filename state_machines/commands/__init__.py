"""The subcommands of `stranded`, one module each; `group` loads them when they are asked for."""
