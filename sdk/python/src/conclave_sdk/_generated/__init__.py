"""The types and the calls of the API.

Made by `sdk/generate` from the description of the API. Not edited by hand.
"""
