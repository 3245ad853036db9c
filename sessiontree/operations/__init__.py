"""What is done with a session: functions over the engine."""
