"""What a history can run on: the model, or a Gym at the other end of a socket."""
