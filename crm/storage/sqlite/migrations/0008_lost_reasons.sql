-- Why deals of a pipeline are lost, as a JSON list of texts to choose from; null when it is empty.
ALTER TABLE pipeline ADD COLUMN lost_reasons TEXT;
