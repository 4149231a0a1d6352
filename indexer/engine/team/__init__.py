"""What a team shares: results by key, so that nobody computes what another has computed."""
