"""Looking at a compiled graph without running it: drawings, the doctor, the plan of super-steps."""
