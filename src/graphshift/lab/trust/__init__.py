"""What predictions can be trusted for: coverage, calibration, abstaining and audits, measured on the tests."""
