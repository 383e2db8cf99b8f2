"""A simulated grid on which policies are compared."""
