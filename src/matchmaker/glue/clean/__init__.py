"""The cleaning rules, and values with the types of the schema."""
