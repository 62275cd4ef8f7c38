"""The topology of a deployment: sites, broker nodes, publishers, subscribers and links."""
