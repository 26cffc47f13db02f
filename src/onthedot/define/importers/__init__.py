"""Imports jobs from other tools: crontabs, systemd timers, Kubernetes CronJobs, tables. Pure.

Each importer returns the jobs that it could make, and a remark with its line for everything that it could not express.
It leaves nothing out silently.
"""
