"""The phone: one page with the chats of one person in all messengers that the local world has."""
