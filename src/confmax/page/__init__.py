"""The page of a report: its words, charts, template and file (extra ``report``)."""
