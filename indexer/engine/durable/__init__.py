"""What outlives a crash: the journal, packs, repair, compaction and validation."""
