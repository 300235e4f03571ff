"""The software of machines: releases, images, roles that converge them, and checks that verify them."""
