"""Front ends: other languages whose patterns are translated into the core language, and so detected as any pattern."""
