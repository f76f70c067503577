import unittest

from textstats.words import count, top


class Count(unittest.TestCase):
    def test_case_does_not_matter(self):
        self.assertEqual(count("The cat and the dog")["the"], 2)

    def test_an_apostrophe_belongs_to_its_word(self):
        self.assertEqual(count("don't, don't")["don't"], 2)

    def test_an_empty_text_has_no_words(self):
        self.assertEqual(count(" ... "), {})


class Top(unittest.TestCase):
    def test_the_most_frequent_comes_first(self):
        self.assertEqual(top("b a a c c c", 2), [("c", 3), ("a", 2)])

    def test_a_negative_limit_is_refused(self):
        with self.assertRaises(ValueError):
            top("a", -1)


if __name__ == "__main__":
    unittest.main()
