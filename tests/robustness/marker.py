"""A module that no model file may have imported."""


def run(*arguments):
    raise AssertionError("a model file had a function called")
