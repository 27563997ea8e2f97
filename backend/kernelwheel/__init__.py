"""Kernels for torch, compiled ahead of time into wheels and checked before they are loaded.

A build backend (`hooks`) and its runtime half (`runtime`), with one Plan, one manifest and one check between them.
"""
