"""What drives the protocol core: Hypothesis machines, exact verdicts, traces, targets, reports, the command line."""
