"""Types and calls that `sdk/generate` makes from the description of the API. Not edited by hand."""
