"""The pytest side of `stranded`: options, profiles, the suite of named policies."""
