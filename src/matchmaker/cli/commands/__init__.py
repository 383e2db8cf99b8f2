"""The subcommands of ``classad``, a module for each subject, imported when called."""
