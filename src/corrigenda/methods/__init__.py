"""Every system of the comparison, a module each, behind one `Method` protocol."""
