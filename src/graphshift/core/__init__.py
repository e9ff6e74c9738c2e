"""What every room uses: errors, files, random seeds, devices, progress bars."""
