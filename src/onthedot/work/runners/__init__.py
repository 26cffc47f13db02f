"""The ways to execute an attempt: on the application's event loop, in a thread, in a child process."""
