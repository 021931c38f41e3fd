"""Mixed kernel models: functions common to all groups plus functions of each group, with partial pooling."""
