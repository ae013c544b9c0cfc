-- node is the server on whose disk the file is; NULL for recordings of earlier versions, whose file is taken to be here. missing_since is
-- when another server has missed the file first, which may be on a disk of its own.
ALTER TABLE uploads ADD COLUMN node TEXT COLLATE "C";
ALTER TABLE uploads ADD COLUMN missing_since BIGINT;
