"""Models in the clouds: addresses, bodies, signatures and credentials.

Amazon Bedrock, Google Vertex AI, Azure OpenAI and Microsoft Foundry serve models through the APIs of
their vendors, but at other addresses, with other credentials and with small changes to the body.
`aws`, `google` and `azure` have these changes as pure functions; `credentials` gets and renews
tokens and keys; `endpoint` joins them for `routing`.
"""
