"""Operations on copies of an agent's state: backups and snapshots made, restored, and restored elsewhere for proof."""
