import unittest


class Sum(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(sum([1, 2, 3]), 6)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    with open("report.txt", "w") as report:
        report.write(f"{result.testsRun} run, {len(result.failures)} failed\n")
