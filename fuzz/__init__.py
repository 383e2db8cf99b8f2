"""Coverage-guided fuzzing of the parser, the readers, the evaluator and what builds on them."""
