"""How often words occur."""

import re
from collections import Counter


def count(text):
    """Counts the words of a text without regard to case."""
    return Counter(re.findall(r"[a-z0-9']+", text.lower()))


def top(text, limit):
    """Returns at most `limit` pairs of word and count, the most frequent first."""
    if limit < 0:
        raise ValueError("limit must not be negative")
    return count(text).most_common(limit)
