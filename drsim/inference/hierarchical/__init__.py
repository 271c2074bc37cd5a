"""The hierarchical model: cells pooled over agents, benchmarks and mechanisms, tasks shared by their arms."""
