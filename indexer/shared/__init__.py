"""What a team has computed, kept where every member can reach it."""
