"""From a request to the user who sent it: issuers' tokens, and sessions of pages that hold them."""
