"""What people look at: pictures, pages, progress."""
