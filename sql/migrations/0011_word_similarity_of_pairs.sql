-- How alike the words of a reported pair are: what a pair of the band "lexical" was found by.

ALTER TABLE report_pairs ADD COLUMN word_similarity double precision;
