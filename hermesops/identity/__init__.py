"""Who acts: operators, pipelines, their signatures and approvals, and the record of access to users' agents."""
