"""What is kept of past batches and looks: the work of batches, and the lag over time."""
