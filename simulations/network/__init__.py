"""A simulated network: broker nodes, publishers and subscribers in virtual time, on the links of a topology."""
