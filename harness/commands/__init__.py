"""The bodies of the verbs, one module each, imported when the verb is called."""
