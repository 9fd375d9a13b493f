"""The command `evensplit init`: a job to start from, written from flags or from answers to questions."""
