"""How a finding is shown: text, Mermaid, one HTML page, a regression test."""
