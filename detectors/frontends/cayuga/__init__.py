"""Cayuga's algebra as plans, which CEL and the algebra's own language come down to, and their translation."""
