"""The only place where storage, files and pure logic meet: one method per operation."""
