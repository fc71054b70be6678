"""What the commands share: the console, the options that choose a target, and how runs are shown and decided on."""
