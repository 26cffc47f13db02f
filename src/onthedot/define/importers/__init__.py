"""What others keep of jobs (crontabs, systemd timers, Kubernetes CronJobs, tables) becomes jobs. All of it pure.

Each reader gives the jobs that it could make, and a remark for everything that it could not say in our words, with its
line: nothing is left out in silence.
"""
