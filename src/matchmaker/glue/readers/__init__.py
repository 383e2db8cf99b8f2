"""Readers of GLUE: LDIF, LDAP, XML and JSON documents, the ads of the OSG."""
