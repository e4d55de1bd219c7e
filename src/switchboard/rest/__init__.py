"""The REST face of the control plane: discovery, nodes, and pages for people and monitors."""
