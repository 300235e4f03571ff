"""``pulumi preview`` by hand: registers what settings and this folder's file say the platform should be."""

from hermesops.app.platform_program import platform_program

platform_program()()
